"""What parts of the package cost; run by hand, on an idle machine."""
