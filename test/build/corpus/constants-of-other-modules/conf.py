DEPS = ("six", "attrs")
