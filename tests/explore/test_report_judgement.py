from __future__ import annotations

import torch

from armagnn.explore.report_judgement import MOST_ROWS, calibration_part, doubts_part, mistakes_part
from armagnn.explore.run_facts import Judgement


def judged(classes: int, count: int = 40) -> Judgement:
    values = torch.softmax(torch.randn(count, classes, generator=torch.Generator().manual_seed(0)), -1)
    names = [f"<{place}>" for place in range(classes)]
    return Judgement("classes", names, range(count), ["test"] * count, values, torch.arange(count) % classes)


def test_few_classes_make_a_matrix_whose_cells_count_all() -> None:
    _, _, body = mistakes_part(judged(3), "nodes")
    cells = [
        int(cell.split("<")[0]) for cell in body.split("<td ")[1:] for cell in [cell.split(">")[1]] if "%" not in cell
    ]
    assert sum(cells) == 40
    assert "&lt;0&gt;" in body
    assert "<0>" not in body


def test_many_classes_make_a_list_of_the_most_frequent() -> None:
    _, _, body = mistakes_part(judged(30), "nodes")
    assert 1 <= body.count("<tr>") - 1 <= MOST_ROWS
    assert "taken for" in body


def test_a_small_test_is_called_small() -> None:
    assert "of so few say little" in mistakes_part(judged(3, 9), "graphs")[2]
    assert "of so few say little" not in mistakes_part(judged(3, 90), "graphs")[2]


def test_certain_and_wrong_is_too_sure() -> None:
    made = Judgement(
        "classes", "ab", range(40), ["test"] * 40, torch.tensor([[0.99, 0.01]] * 40), torch.ones(40).long()
    )
    part = calibration_part(made)
    assert part is not None
    assert "too sure" in part[2]
    assert "99.0 points" in part[2]


def test_numbers_of_one_network_have_no_doubts() -> None:
    made = Judgement("numbers", ["t"], range(3), ["test"] * 3, torch.zeros(3, 1), torch.zeros(3, 1))
    assert doubts_part(made, "nodes") is None
    assert calibration_part(made) is None
