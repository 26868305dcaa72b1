"""Puts the small pictures of many into one: it calls `thumbnail` for each of them, and works on what lies in the volume then. Needs Pillow."""

from pathlib import Path

from svc import Endpoint
from thumbnail import thumbnail

PICTURES = Path("/volumes/pictures")


@Endpoint(name="sheet", cpu="cpu3c-1-2", workers=(0, 1), volume="pictures", dependencies=["pillow"])
def sheet(names: list[str], side: int = 128) -> dict:
    """Writes sheet.jpg, the pictures side by side in their order, and says how large it is."""
    from PIL import Image

    smalls = list(thumbnail.starmap((name, side) for name in names))
    whole = Image.new("RGB", (sum(one["width"] for one in smalls), max(one["height"] for one in smalls)))
    left = 0
    for one in smalls:
        with Image.open(PICTURES / one["name"]) as small:
            whole.paste(small, (left, 0))
        left += one["width"]
    whole.save(PICTURES / "sheet.jpg", "JPEG")
    return {"name": "sheet.jpg", "width": whole.width, "height": whole.height}
