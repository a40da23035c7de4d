"""`superbizagent demo`: one real diagnosis on a real pair of services, checked at its end."""

import asyncio
import time

from cli.demo.question import QUESTION, checked_question
from cli.demo.signals import held, stoppable
from cli.demo.stage import Stage
from cli.errors import DONE, NOT_THERE, CommandError


def run_demo(question: str | None) -> int:
    """Play the demo; 0 only if everything that it shows really happened."""
    asked = QUESTION if question is None else checked_question(question)
    started = time.monotonic()
    # The services start while the rest of the demo is still being imported.
    with Stage() as stage, held():
        from cli.demo.play import play
        from cli.demo.show import Screen, own_command
        from cli.terminal import new_console

        screen = Screen(new_console())
        screen.line(
            "One real diagnosis, by a scripted agent: a script, no language model. All the rest is real."
        )
        screen.heading("1  The services", "two processes on free ports, on a new SQLite database")
        run_id, facts = asyncio.run(stoppable(play(stage, screen, asked)))
    from cli.demo.check import services_stopped

    facts.append(services_stopped(stage.exit_codes))
    screen.heading("5  Checked", "looked up in the services, the database and the logs")
    screen.facts(facts)
    screen.line(f"after {time.monotonic() - started:.1f} s")
    if not all(fact.holds for fact in facts):
        raise CommandError("not everything that the demo shows really happened", NOT_THERE)
    screen.heading("What to try next", f"the database stays at {stage.database}")
    command = own_command()
    screen.commands(
        [
            ("serve this database", f"SUPERBIZ_DATABASE_URL={stage.database_url} \\\n    {command} serve"),
            ("then, in a second terminal", f"{command} trace {run_id}"),
            ("ask something else", f'{command} demo --question "how long does a lease last?"'),
        ]
    )
    return DONE
