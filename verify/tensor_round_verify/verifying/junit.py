"""A report as JUnit XML, which most CI services show: a test case for each dtype and direction."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from .baseline import Complaints
from .results import Report


def junit_xml(report: Report, complaints: Complaints) -> bytes:
    """A test suite of the runtime: complaints are failures; unsupported pairs are skipped."""
    reasons = {row.pair: row.why for row in report.lacking}
    pairs = [*(verdict.pair for verdict in report.verdicts), *reasons]
    suite = Element(
        "testsuite",
        name=report.runtime,
        tests=str(len(pairs)),
        failures=str(len(complaints)),
        errors="0",
        skipped=str(len(reasons.keys() - complaints.keys())),
    )
    examples = {
        verdict.pair: "\n".join(
            str(example) for count in verdict.classes for example in count.first
        )
        for verdict in report.verdicts
    }
    for pair in pairs:
        case = SubElement(suite, "testcase", classname=report.runtime, name=" ".join(pair))
        if pair in complaints:
            SubElement(case, "failure", message=complaints[pair]).text = examples.get(pair)
        elif pair in reasons:
            SubElement(case, "skipped", message=f"not taken: {reasons[pair]}")
        elif examples[pair]:
            SubElement(case, "system-out").text = f"known faults:\n{examples[pair]}"
    suites = Element("testsuites")
    suites.append(suite)
    indent(suites)
    document: bytes = tostring(suites, "utf-8", xml_declaration=True)
    return document + b"\n"
