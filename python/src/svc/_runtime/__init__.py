"""The worker runtime. At the top what is started or imported by name: launcher.py and confined_installer.py, and loader.py by handlers."""
