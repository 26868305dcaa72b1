from models import Model

Exact = Model.with_options(layers=1, size="small", name="exact")
frame = object().with_options(x=1) if False else None
