"""A mail server for the tutorial: it counts the e-mails that arrive at a port of this computer, and prints them."""

import asyncio
import os
from contextlib import suppress

e_mails = 0


async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    global e_mails
    writer.write(b"220 tutorial\r\n")
    while command := (await reader.readline()).decode().strip().upper():
        if command == "DATA":
            writer.write(b"354 go on\r\n")
            message = (await reader.readuntil(b"\r\n.\r\n")).decode().removesuffix("\r\n.\r\n")
            e_mails += 1
            print(f"e-mail {e_mails}:", message.split("\r\n\r\n", 1)[1].strip(), flush=True)
        writer.write(b"221 bye\r\n" if command == "QUIT" else b"250 ok\r\n")
        if command == "QUIT":
            break
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(receive, "127.0.0.1", int(os.environ.get("MAIL_PORT", "2525")))
    print("waiting for e-mails at port", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


with suppress(KeyboardInterrupt):
    asyncio.run(main())
