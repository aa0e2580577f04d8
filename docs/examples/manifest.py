import json
from pathlib import Path

from demiurge.world.manifest import problems, read_folder

print(len(problems(read_folder(Path("shop")))), "problems")

manifest = Path("shop/manifest.json")
text = manifest.read_text("utf-8")
manifest.write_text(text.replace('"name": "stock"', '"name": "stok"').replace("$value.order", "order"), "utf-8")

order = Path("shop/order.json")
parts = json.loads(order.read_text("utf-8"))
parts[1]["steps"][2]["expr"]["args"][0] = {"ref": "@plan.input.cuont"}
order.write_text(json.dumps(parts), "utf-8")

for problem in problems(read_folder(Path("shop"))):
    print(problem)
