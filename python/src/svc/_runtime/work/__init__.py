"""Running functions: a worker, its three ways to run, and the frames that answer a job or request."""
