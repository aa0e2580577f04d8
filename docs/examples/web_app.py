import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException, Path, Request
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from pydantic import BaseModel

from demiurge import ToolEffect, ToolResult, World, tool
from demiurge.bootstrap import Chat
from demiurge.errors import Conflict, DemiurgeError, InvalidValue, NotFound, UsageError
from demiurge.values.caller import Caller

USERS = {"token-of-ada": "ada", "token-of-bob": "bob"}  # in place of this: the login that your app has


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def order_part(part: str, count: int) -> ToolResult[dict[str, int]]:
    """Orders pieces of a part."""
    return ToolResult(f"Ordered {count} of {part}.", {part: count})


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with World.open("shop.world", [order_part]) as world:
        app.state.world = world
        yield


app = FastAPI(lifespan=lifespan)


@dataclass(frozen=True)
class User:
    name: str
    world: World  # as this user: every record names who asked and who decided

    def chat(self, name: str) -> Chat:
        return self.world.chat(f"{self.name}.{name}")  # a user reaches the chats with this beginning, and no others


def logged_in(request: Request, authorization: Annotated[str, Header()] = "") -> User:
    name = USERS.get(authorization.removeprefix("Bearer "))
    if name is None:
        raise HTTPException(401, "Log in first.")
    return User(name, request.app.state.world.acting_as(Caller(f"user:{name}", roles=("agent", "approver"))))


Me = Annotated[User, Depends(logged_in)]
Name = Annotated[str, Path(pattern="^[a-z0-9-]{1,40}$")]  # no dot, so nobody names a chat of somebody else

STATUS = {Conflict: 409, NotFound: 404, InvalidValue: 422, UsageError: 403}


@app.exception_handler(DemiurgeError)
async def say_what_went_wrong(_: Request, error: DemiurgeError) -> JSONResponse:
    status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), 503)
    return JSONResponse({"code": error.code, "message": error.message}, status)


class Message(BaseModel):
    text: str


class Decision(BaseModel):
    approve: bool
    reason: str = ""


@app.post("/chats/{name}/messages", status_code=202)
async def say(me: Me, name: Name, message: Message) -> dict[str, int]:
    said = await me.chat(name).say(message.text)  # Conflict `chat_busy` while the last turn is open
    return {"request_id": said.request_id}


@app.get("/chats/{name}/messages")
async def messages(me: Me, name: Name) -> list[dict[str, Any]]:
    return await me.chat(name).messages()


@app.get("/chats/{name}/turns/{request_id}/stream")
async def stream(me: Me, name: Name, request_id: int) -> StreamingResponse:
    chat = me.chat(name)
    await chat.reply(request_id)  # NotFound before the first byte
    return StreamingResponse(_events(chat, request_id), media_type="text/event-stream")


async def _events(chat: Chat, request_id: int) -> AsyncIterator[str]:
    frames: asyncio.Queue[Any] = asyncio.Queue()
    turn = asyncio.create_task(chat.wait(request_id, frames.put_nowait))
    turn.add_done_callback(lambda _: frames.put_nowait(None))
    try:
        while (frame := await frames.get()) is not None:
            if frame["type"] == "text_delta":
                yield _event("text", frame["delta"])
        reply = await turn
        yield _event("end", {"status": reply.status, "text": reply.text, "message": reply.message})
    finally:
        turn.cancel()  # the browser went away; the turn itself belongs to the world and goes on


def _event(kind: str, data: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"


@app.get("/chats/{name}/waiting")
async def waiting(me: Me, name: Name) -> list[dict[str, Any]]:
    return [
        {"id": call["id"], "tool": call["tool"], "arguments": json.loads(call["arguments_json"])}
        for call in await me.world.approvals(me.chat(name).unit)
    ]


@app.post("/chats/{name}/waiting/{call_id}", status_code=202)
async def decide(me: Me, name: Name, call_id: str, decision: Decision) -> None:
    mine = await me.world.approvals(me.chat(name).unit)
    if call_id not in [call["id"] for call in mine]:
        raise HTTPException(404, "No such call waits in this chat.")
    await me.world.decide(call_id, approve=decision.approve, reason=decision.reason)


@app.get("/", response_class=HTMLResponse)
async def page() -> str:
    return """<!doctype html><title>Shop</title><pre id="answer"></pre><form><input name="text"></form><script>
const headers = {authorization: `Bearer ${prompt("Token")}`, "content-type": "application/json"};
document.forms[0].onsubmit = async (event) => {
  event.preventDefault();
  const body = JSON.stringify({text: event.target.text.value}), answer = document.getElementById("answer");
  const said = await fetch("/chats/main/messages", {method: "POST", headers, body});
  const {request_id, message} = await said.json();
  answer.textContent = said.ok ? "" : message;
  if (!said.ok) return;
  const turn = await fetch(`/chats/main/turns/${request_id}/stream`, {headers});
  let rest = "";
  for await (const piece of turn.body.pipeThrough(new TextDecoderStream())) {
    const events = (rest + piece).split("\\n\\n");
    rest = events.pop();
    for (const each of events.filter((each) => each.startsWith("event: text")))
      answer.textContent += JSON.parse(each.split("data: ")[1]);
  }
};
</script>"""
