"""A FastAPI application as anybody writes it: nothing in this file knows svc. `uvicorn units:app` serves it too."""

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

METRES = {"mm": 0.001, "m": 1.0, "km": 1000.0, "in": 0.0254, "ft": 0.3048, "mi": 1609.344}

app = FastAPI(title="Units")


class Length(BaseModel):
    amount: float
    unit: str


@app.get("/units")
async def units() -> list[str]:
    return sorted(METRES)


@app.post("/convert/{unit}")
async def convert(unit: str, length: Length) -> Length:
    if unit not in METRES or length.unit not in METRES:
        raise HTTPException(404, f"units are {', '.join(METRES)}")
    return Length(amount=length.amount * METRES[length.unit] / METRES[unit], unit=unit)
