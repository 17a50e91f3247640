"""Public test kit: what a new family, sampler or assignment kernel must satisfy, as functions to call in a test."""
