from shop import app


@app.api.get("/users/{user_id}")
def show(user_id: int): ...
