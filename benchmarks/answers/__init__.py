"""Right and wrong answers made from benchmark references, to measure the judge with."""
