"""Whether a checkout's submodules hold work, seen without running git inside them."""

from __future__ import annotations

from hostler.checkouts import inspection
from hostler.checkouts.changes import GITLINK, look
from hostler.checkouts.errors import GitFailed
from hostler.checkouts.git import Git
from hostler.checkouts.names import Sha, sha
from hostler.checkouts.view import View, bare_over


def dirty_submodules(view: View) -> tuple[str, ...]:
    """Submodules that are filled and differ from what the index records."""
    listed = view.tree("ls-files", "-s", "-z").items
    links = [entry.split("\t", 1) for entry in listed if entry.startswith(GITLINK)]
    return tuple(path for facts, path in links if not _untouched(view, path, sha(facts.split()[1])))


def _untouched(view: View, link: str, recorded: Sha) -> bool:
    """An empty folder, or files that equal a recorded commit which the submodule's remote has."""
    root = view.checkout.path
    folder = root / link
    if folder.is_symlink():
        return False
    if not folder.is_dir() or not any(folder.iterdir()):
        return True
    git_dir = (".git", "modules", *link.split("/"))
    objects = root.joinpath(*git_dir, "objects")
    if objects.resolve() != objects or not objects.is_dir():
        return False
    fetched = inspection.fetched_refs(root, *git_dir)
    with bare_over((objects,), view.checkout.mirror.views) as path:
        git = Git(path, path)
        try:
            changes = look(git.over(folder, path / "index"), recorded)
            known = "".join(f"^{commit}\n" for commit in fetched)
            local = git("rev-list", "-n1", "--stdin", stdin=f"{recorded}\n{known}".encode()).text
        except GitFailed:
            return False
    return not (changes.files or changes.nested or local)
