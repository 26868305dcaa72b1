from a import NAME
