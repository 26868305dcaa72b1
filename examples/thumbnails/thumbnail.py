"""Makes one picture small. Pictures lie in the volume `pictures`, and what is made of them beside them. Needs Pillow."""

from pathlib import Path

from svc import Endpoint

PICTURES = Path("/volumes/pictures")
SIDE_MAX = 512


@Endpoint(name="thumbnail", cpu="cpu3c-1-2", workers=(0, 3), volume="pictures", dependencies=["pillow"])
def thumbnail(name: str, side: int = 128) -> dict:
    """Writes thumbs/<name>.jpg, no side longer than `side` pixels, and says how large it is."""
    from PIL import Image

    if Path(name).name != name:
        raise ValueError(f"a picture's name is that of a file in the volume, not {name}")
    target = PICTURES / "thumbs" / f"{Path(name).stem}.jpg"
    target.parent.mkdir(exist_ok=True)
    with Image.open(PICTURES / name) as picture:
        small = picture.convert("RGB")
        small.thumbnail((min(side, SIDE_MAX), min(side, SIDE_MAX)))
        written = target.with_suffix(".new")
        small.save(written, "JPEG")
        written.replace(target)  # who reads at this moment gets the earlier one, whole
        return {"name": str(target.relative_to(PICTURES)), "width": small.width, "height": small.height}
