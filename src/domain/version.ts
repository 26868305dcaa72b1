/** The version of the CLI, the platform and the Python package; a test keeps it equal to package.json. */
export const VERSION = "0.1.0";
