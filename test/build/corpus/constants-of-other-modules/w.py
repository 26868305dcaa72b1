import conf
import settings.names as names
from settings import NAME
from svc import Endpoint


@Endpoint(name=NAME, dependencies=conf.DEPS, idle_timeout=names.LIMITS["idle"])
def w(): ...
