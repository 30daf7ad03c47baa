"""Groups of commands: a misspelt command is answered with the one that was meant."""

from typing import Any

from typer.core import TyperGroup

from highwaynet.base.errors import InputError, closest, unknown


class Commands(TyperGroup):
    """A group of commands that suggests the closest one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; raises InputError, which names all commands, if there is none of this name."""
        name = args[0] if args else ""
        if name and name not in self.commands and not name.startswith("-"):
            if not closest(name, self.commands) and closest(name, ["highway"]):
                raise InputError(f"unknown command {name!r}: after `highway` comes a command: {', '.join(self.commands)}")
            raise unknown("command", name, self.commands)
        return super().resolve_command(ctx, args)
