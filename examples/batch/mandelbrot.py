"""One row of a picture of the Mandelbrot set, on a queue-based endpoint."""

from svc import Endpoint

WIDTH, HEIGHT = 400, 1000
ITERATIONS = 48
LEFT, RIGHT, TOP, BOTTOM = -0.7487, -0.7405, 0.1338, 0.1133


@Endpoint(name="mandelbrot", cpu="cpu3c-1-2", workers=(0, 4), idle_timeout=30)
def row(y: int, iterations: int = ITERATIONS) -> bytes:
    """The brightness of each point of row `y`, 0 to 255, in one byte each."""
    if not 0 <= y < HEIGHT:
        raise ValueError(f"y is 0 to {HEIGHT - 1}, not {y}")
    imaginary = TOP + (BOTTOM - TOP) * y / HEIGHT
    points = (complex(LEFT + (RIGHT - LEFT) * x / WIDTH, imaginary) for x in range(WIDTH))
    return bytes(brightness(point, iterations) for point in points)


def brightness(point: complex, iterations: int) -> int:
    z = 0j
    for step in range(iterations):
        if abs(z) > 2:
            return 255 - 255 * step // iterations
        z = z * z + point
    return 0
