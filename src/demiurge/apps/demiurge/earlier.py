"""The digests of reducer sources that earlier versions of this app shipped.

A world keeps the source of each reducer that it ran. A kept source with one of these digests is this program's own. So
it may run again whatever the origin of the world, and old histories are computed with the code that made them. When a
reducer of the app changes, add the digest of the shipped source here. The names that such a source imports from this
package must keep their meaning.
"""

from __future__ import annotations

from demiurge.values.refs import Ref

__all__ = ["EARLIER"]

EARLIER: frozenset[Ref] = frozenset(
    map(
        Ref,
        (
            "sha256:1b5c775b6f957a5244ba301b43a30edf58c3fbff491a12ed80190932d191c4a6",  # chats
            "sha256:a981dbedc4d24e08b8d5d001655f5bd90e7936a6471ba5f6389b46e370d2a3e4",  # chats without new titles
            "sha256:95da5bf0ad15104d225343cb3a51830ec1f01fe3c7480d6ed18ae66c55325ee9",  # chats without a catalog
            "sha256:cf857aaddafd25114bfd85a5bc0fe7507d957a98d33f054dfb02418fd996b4ee",  # chats without quarantine
            "sha256:e3b458754ce4f4feac251499a66ac78e60535e6a1e3c57fc4e217345e8a7b95b",  # chats whose toolset sticks
            "sha256:7ea9853bd92f323b73f81425352b638432667d8e83a27d35c92927a0a96074a7",  # calls
            "sha256:4fd6454f6de79200202663d021b16d9a95bfbb863a45dc921567471649a485b3",  # workspaces
            "sha256:13d493f3a00e25463c1adb7394c1d8997a4ea50214a5009ce385f99800e948f9",  # proposals, digest first
            "sha256:9420f058729cca56138de93f16674bda768f2e2f4defce555cf10a668e52dd36",  # issues
            "sha256:c1a89ee914293bb28a0c285806764523a79e9459cfc074b8d41434b3d4e276e7",  # issues with any id
            "sha256:94906e434f82025f669f63186cbe9ef8383d73164140648756c3fdccf61c6367",  # proposals with any id
            "sha256:30b33714940603b26d7231962083fb6e4940a42f0cbba131f671ab54f0e06488",  # model runs with any setting
            "sha256:8782b786ed167c6bf65166765eb9b1e1679dc137f218fb420e8132cb58d356b6",  # model runs, all counted
            "sha256:3e9d8a1b634314d8fee8ba7ed845dd661a5f65bb4b256e831578010c51c2b765",  # proposals, any registry
        ),
    )
)
