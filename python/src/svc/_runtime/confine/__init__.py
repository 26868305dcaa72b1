"""What keeps a worker from the machine and from others: cgroups, namespaces, Landlock, seccomp, its view of the files."""
