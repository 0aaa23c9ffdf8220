"""Map the folders of the repository into the one package `interlingua`; pyproject.toml cannot find a mapping's sub-packages."""

from setuptools import find_packages, setup

FOLDERS = ("modalities", "models", "tasks", "datamodules", "configs")
packages = [name for folder in FOLDERS for name in (folder, *(f"{folder}.{sub}" for sub in find_packages(folder)))]

setup(
    packages=["interlingua", *(f"interlingua.{name}" for name in packages)],
    package_dir={"interlingua": "interlingua", **{f"interlingua.{folder}": folder for folder in FOLDERS}},
    package_data={
        "interlingua": ["py.typed"],
        "interlingua.configs": ["**/*.yaml"],
        "": ["*.html", "NOTICE", "*.webp", "*.json.gz"],
    },
)
