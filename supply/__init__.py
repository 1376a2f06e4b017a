"""What Riparian depends on: locked (*.txt), asked about (vulnerabilities), listed (sbom). Not part of the package."""
