/**
 * What svc uses of node:util. A module that is imported shows all that it exports, and node:util then loads what compares texts and the
 * streams to the terminal.
 */
export const { promisify, stripVTControlCharacters } = process.getBuiltinModule("node:util");
