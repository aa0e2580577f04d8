#!/bin/sh
# One message to a real provider through the events of a chat, and its answer: in a world of its own, which is removed.
# Takes the key from the environment (LLM_API_KEY or the provider's own variable). `PROVIDER` and `MODEL` choose.
set -eu
PROVIDER=${PROVIDER:-openai-responses} MODEL=${MODEL:-gpt-4o-mini}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export DEMIURGE_WORLD="$place/world"
field() { python3 -c "import json, sys; print(json.load(sys.stdin)$1)"; }

demiurge init --json > "$place/init"
demiurge event send demiurge/ChatEvent@1 \
    '{"$tag":"ChatCreated","$value":{"chat_id":"chat-1","title":"First chat","created_at_ms":1737460000000}}'
message=$(echo '{"role":"user","content":[{"type":"text","text":"Say hello in one word."}]}' | demiurge blob put @- | field '["hash"]')
demiurge event send demiurge/ChatEvent@1 \
    '{"$tag":"UserMessage","$value":{"chat_id":"chat-1","request_id":1,"text":"Hello","message_ref":"'"$message"'",
      "model":"'"$MODEL"'","provider":"'"$PROVIDER"'","max_tokens":128}}'
demiurge state get demiurge/Demiurge@1 > "$place/state"
if [ "$(field '["turn"]["status"]' < "$place/state")" != done ]; then
    field '["turn"]["message"]' < "$place/state" >&2
    exit 1
fi
demiurge blob get "$(field '["messages"][-1]["message_ref"]' < "$place/state")" --raw
echo
demiurge cost
