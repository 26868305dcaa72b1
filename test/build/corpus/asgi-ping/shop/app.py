def make():
    from fastapi import FastAPI

    app = FastAPI()

    @app.get("/ping")
    def ping():
        return client.get("/ping")

    @app.get(path="/ping")
    def named(): ...

    app.add_api_route("/ping", ping)
    app.include_router(prefix="/ping")
    return app
