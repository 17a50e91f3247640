"""Exit with 1 when `import weald` in a fresh process takes more than half a second, the best of five."""

import subprocess
import sys
import time

LIMIT = 0.5


def seconds(statement: str) -> float:
    """The best of five fresh processes, the bare interpreter's own start taken off."""

    def best(code: str) -> float:
        times = []
        for _ in range(5):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times.append(time.perf_counter() - start)
        return min(times)

    return best(statement) - best("pass")


if __name__ == "__main__":
    took = seconds("import weald")
    sys.stdout.write(f"import weald: {took:.3f} s (limit {LIMIT} s)\n")
    sys.exit(took > LIMIT)
