NAME = "from-far"
LIMITS = {"idle": 120}
