"""From problems to micro-batches: sampled, scored, credited on whole groups, balanced, split."""
