"""The ways of messages as text."""

from quiver_spark.jobs.lineage.graph import Step, mermaid, tree_lines


def test_a_tree_begins_with_the_oldest_message() -> None:
    found = [
        Step("a/0/1", "b/0/2", "lineage"),
        Step("b/0/2", "c/0/3", "trace"),
        Step("b/0/2", "b.dlq/0/0", "dead letter"),
    ]
    assert tree_lines("b/0/2", found) == [
        "a/0/1",
        "  b/0/2 (lineage)  <- this message",
        "    c/0/3 (trace)",
        "    b.dlq/0/0 (dead letter)",
        "",
    ]


def test_a_circle_ends() -> None:
    assert tree_lines("a/0/1", [Step("a/0/1", "b/0/2", "lineage"), Step("b/0/2", "a/0/1", "lineage")])


def test_a_flow_chart() -> None:
    edges = [{"source": "a", "target": "b", "by": "trace", "messages": 1200}]
    assert mermaid(edges) == 'flowchart LR\n  t0["a"]\n  t1["b"]\n  t0 -->|"trace: 1,200"| t1\n'
