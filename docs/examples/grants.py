from demiurge.capabilities.http.rules import http_problem
from demiurge.capabilities.http.urls import parse_url
from demiurge.errors import InvalidValue

grant = {"hosts": ["api.example", "bücher.example"], "methods": ["GET"], "path_prefixes": ["/v1"]}

REQUESTS = [
    ("GET", "https://api.example/v1/items?page=2"),
    ("GET", "https://xn--bcher-kva.example/v1"),
    ("POST", "https://api.example/v1/items"),
    ("GET", "https://api.example.evil.example/v1"),
    ("GET", "https://api.example/v1/%2e%2e/admin"),
    ("GET", "https://api.example@evil.example/v1"),
]

for method, url in REQUESTS:
    try:
        problem = http_problem(grant, method, parse_url(url))
    except InvalidValue as error:
        problem = error.code
    print(f"{problem or 'covered':20}{method} {url}")
