from common import Worker


@Worker(name="w")
def w(): ...
