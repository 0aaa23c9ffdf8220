"""The small twins watch held-out data: what their interval of validation is for."""

import pytest
import yaml

from interlingua.configuration import packaged_configurations

TEXT = ("mbert", "xlm", "xlmr", "infoxlm", "unicoder", "alm", "hictl", "erniem", "cross_lingual_documents")


@pytest.mark.parametrize("name", TEXT)
def test_a_small_twin_validates_on_shards_that_it_does_not_train_on(name):
    found = yaml.safe_load(packaged_configurations()[f"configs/pretrain/{name}_small.yaml"].read_text(encoding="utf-8"))
    data = found["data"]["init_args"]
    assert data["validation"].keys() <= found["model"]["init_args"]["passes"].keys()
    assert {source["shards"].rpartition("/")[2] for source in data["validation"].values()} == {"val"}
    assert found["trainer"]["val_check_interval"] <= found["trainer"]["max_steps"]
