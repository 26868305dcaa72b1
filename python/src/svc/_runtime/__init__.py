"""The worker runtime. At the top what is started or imported by name: launcher.py, confined_installer.py, and loader.py by handlers. Nothing here is public."""
