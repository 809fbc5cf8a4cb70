"""Keys and values of records as files: the bytes as they are, which no browser opens by itself."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from fencepost.client.errors import ClientError
from fencepost.console.asked import BadQuery, NotThere
from fencepost.console.records.decoders import Decoder
from fencepost.console.records.one import read_one
from fencepost.console.records.row_maker import RowMaker
from fencepost.console.session import Session
from fencepost.console.web.asking import asked_of

PATH: Final = "/topics/{topic}/records/{partition}/{offset}/{part}"


def download_routes(session: Session) -> list[Route]:
    """The route of downloads."""

    async def answer(request: Request) -> Response:
        as_is = Decoder("hex")
        try:
            asked = asked_of(request)
            asked.check("a file of a record", ("topic", "partition", "offset", "part"), ())
            part = asked.choice("part", ("value", "key"))
            whole = await read_one(session, asked, RowMaker(as_is, as_is))
            record = whole.found.record
            data = record.key if part == "key" else record.value
            if data is None:
                raise NotThere(f"the {part} is null")
        except BadQuery as error:
            return PlainTextResponse(f"{error}\n", 400)
        except NotThere as error:
            return PlainTextResponse(f"{error}\n", 404)
        except ClientError as error:
            return PlainTextResponse(f"{error}\n", 502)
        # Names of topics have letters, digits, dots, dashes and underscores only.
        name = f"{whole.topic}-{whole.row.partition}-{whole.row.offset}.{part}"
        return Response(
            data,
            media_type="application/octet-stream",
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )

    return [Route(PATH, answer, methods=["GET"])]
