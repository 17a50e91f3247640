"""Exit with 1 when a relative link or image in a Markdown file of the project leads nowhere."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def broken(page: Path) -> list[str]:
    """Targets of `page` that do not exist."""
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    local = [target for target in targets if not re.match(r"[a-z]+:", target)]
    return [target for target in local if not (page.parent / target).exists()]


if __name__ == "__main__":
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    problems = [f"{name}: {target}" for name in listed.split() for target in broken(ROOT / name)]
    sys.stdout.write("\n".join([*problems, f"{len(problems)} broken links in {len(listed.split())} pages"]) + "\n")
    sys.exit(bool(problems))
