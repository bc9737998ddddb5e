"""Sessions of an agent through a gateway, and what the engines counted of them.

sessions.py URL ENGINE...: six sessions side by side, each of three turns of five calls
on a growing conversation, every other one streamed. In the end the tokens that the
clients were told of must be those on the engines' pages.
"""

import json
import sys
import threading
import urllib.request

URL, ENGINES = sys.argv[1], sys.argv[2:]
SYSTEM = "You are a coding agent. " + "Read the file before you change it. " * 200
totals = {"prompt": 0, "cached": 0, "output": 0, "calls": 0}
lock = threading.Lock()


def call(session, messages, stream):
    body = {
        "model": "agents", "messages": messages, "max_tokens": 150, "stream": stream,
        "litellm_session_id": session, "metadata": {"session_id": session},
    }
    if stream:
        body["stream_options"] = {"include_usage": True}
    request = urllib.request.Request(
        URL, json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer sk-testbed"},
    )
    text, usage = "", None
    with urllib.request.urlopen(request, timeout=120) as response:
        if not stream:
            answer = json.load(response)
            text, usage = answer["choices"][0]["message"]["content"], answer["usage"]
        else:
            for line in response:
                line = line.decode().strip()
                if not line.startswith("data: ") or line == "data: [DONE]":
                    continue
                chunk = json.loads(line[6:])
                usage = chunk.get("usage") or usage
                for choice in chunk["choices"]:
                    text += choice["delta"].get("content") or ""
    with lock:
        totals["prompt"] += usage["prompt_tokens"]
        totals["cached"] += usage["prompt_tokens_details"]["cached_tokens"]
        totals["output"] += usage["completion_tokens"]
        totals["calls"] += 1
    return text


def session(number):
    messages = [{"role": "system", "content": SYSTEM}]
    for turn in range(3):
        messages.append({"role": "user", "content": f"Task {number}.{turn}: " + "look into it. " * 40})
        for step in range(5):
            answer = call(f"session-{number}", messages, stream=step % 2 == 1)
            messages.append({"role": "assistant", "content": answer})
            messages.append({"role": "user", "content": "tool result: " + "all is well. " * 60})


def counted(name):
    total = 0.0
    for engine in ENGINES:
        with urllib.request.urlopen(f"http://{engine}/metrics", timeout=10) as page:
            for line in page.read().decode().splitlines():
                if line.startswith(name + "{"):
                    total += float(line.rsplit(" ", 1)[1])
    return total


threads = [threading.Thread(target=session, args=(n,)) for n in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
ok = totals["calls"] == 6 * 3 * 5
for what, name in {
    "prompt": "vllm:prompt_tokens_total", "cached": "vllm:prompt_tokens_cached_total",
    "output": "vllm:generation_tokens_total", "calls": "vllm:request_success_total",
}.items():
    engines = counted(name)
    ok = ok and engines == totals[what]
    print(f"{what}: the clients were told of {totals[what]}, the engines count {engines:.0f}")
print(f"hit ratio {totals['cached'] / totals['prompt']:.3f}")
sys.exit(0 if ok else "they differ")
