"""The application: `weald` on the command line, and the same steps as Python functions."""
