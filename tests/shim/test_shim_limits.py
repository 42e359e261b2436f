"""Wall and silence."""

from __future__ import annotations

from shim_runs import Stable

STAY = "here('agent')"


def test_a_run_ends_at_its_wall_limit_even_if_it_talks(stable: Stable):
    code = "while True: print('working', flush=True); time.sleep(0.05)"
    word = stable.run(code, wall_seconds=0.5, silence_seconds=60).run().word()
    assert (word["ended_by"], word["signal"]) == ("wall_timeout", "SIGTERM")


def test_the_wall_limit_holds_against_a_tree_that_ignores_requests(stable: Stable):
    code = "child(lambda: deaf('tool'))\ndeaf('agent')"
    word = stable.run(code, wall_seconds=0.5, grace_seconds=0.2).run().word()
    assert word["ended_by"] == "wall_timeout"
    assert not stable.left()


def test_a_silent_agent_is_stalled(stable: Stable):
    word = stable.run(STAY, silence_seconds=0.5).run().word()
    assert (word["ended_by"], word["signal"]) == ("stall", "SIGTERM")


BUSY = {
    "waits for a tool in a session of its own": """
os.waitpid(child(lambda: (os.setsid(), time.sleep(6))), 0)
""",
    # No look may ever meet one of them: they are known by the agent's account of children.
    "uses one short tool after another": """
end = time.monotonic() + 6
while time.monotonic() < end:
    os.waitpid(child(lambda: None), 0)
    time.sleep(0.2)
""",
    "talks on either stream": """
for n in range(24):
    print('.', file=(sys.stdout, sys.stderr)[n % 2], flush=True)
    time.sleep(0.25)
""",
}


def test_an_agent_that_talks_or_uses_tools_is_not_stalled(stable: Stable):
    """All at once, as each has to last longer than the limit."""
    shims = {does: stable.run(BUSY[does], name=does, silence_seconds=3).run() for does in BUSY}
    ends = {does: shim.word()["ended_by"] for does, shim in shims.items()}
    assert ends == dict.fromkeys(BUSY, "exit")


def test_silence_counts_again_when_the_tool_has_ended(stable: Stable):
    code = "os.waitpid(child(lambda: time.sleep(0.5)), 0)\n" + STAY
    assert stable.run(code, silence_seconds=0.5).run().word()["ended_by"] == "stall"


# A script that starts its program, which keeps a server.
WRAPPED = """
def program():
    child(lambda: (os.setpgid(0, 0), here('server')))
    %s
os.waitpid(child(program), 0)
"""


def test_a_program_below_its_script_is_no_tool_where_tools_are_apart(stable: Stable):
    code = WRAPPED % "here('program')"
    shim = stable.run(code, silence_seconds=0.5, tools_apart=True).run()
    assert shim.word()["ended_by"] == "stall"


def test_a_tool_apart_is_waited_for_and_without_that_word_everything_is_a_tool(stable: Stable):
    tool = "os.waitpid(child(lambda: (os.setsid(), time.sleep(3))), 0)"
    shims = [
        stable.run(WRAPPED % tool, name="apart", silence_seconds=1.5, tools_apart=True).run(),
        stable.run(WRAPPED % "time.sleep(3)", name="any", silence_seconds=1.5).run(),
    ]
    assert [shim.word()["ended_by"] for shim in shims] == ["exit", "exit"]


def test_a_daemon_that_left_the_agent_is_no_tool(stable: Stable):
    code = """
def first():
    os.setsid()
    child(lambda: here('daemon'))
os.waitpid(child(first), 0)
here('agent')
"""
    assert stable.run(code, silence_seconds=0.5).run().word()["ended_by"] == "stall"


def test_without_limits_a_run_lasts(stable: Stable):
    shim = stable.run(STAY, wall_seconds=0, silence_seconds=0).run()
    stable.events.people("agent")
    shim.stop()
    assert shim.word()["ended_by"] == "stop"


TAKES = """
import mmap
reserved = mmap.mmap(-1, 4 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ)
def take():
    try:
        bytearray(256 << 20)
    except MemoryError:
        return 7
    return 0
pid = child(lambda: os._exit(take()))
_, status = os.waitpid(pid, 0)
print(take(), os.waitstatus_to_exitcode(status))
"""


def test_a_process_gets_no_more_memory_than_it_may_have(stable: Stable):
    shim = stable.run(TAKES, memory_mb=128).run()
    assert shim.word()["ended_by"] == "exit"
    assert shim.output() == "7 7\n"
    free = stable.run(TAKES, name="free").run()
    free.wait()
    assert free.output() == "0 0\n"
