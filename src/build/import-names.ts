import { normalizedName } from "./requirement.ts";

/** Packages whose import name differs from their name on the index. */
const DISTRIBUTIONS: Record<string, readonly string[]> = {
  bs4: ["beautifulsoup4"],
  cv2: ["opencv-python", "opencv-python-headless", "opencv-contrib-python", "opencv-contrib-python-headless"],
  Crypto: ["pycryptodome", "pycrypto"],
  dateutil: ["python-dateutil"],
  docx: ["python-docx"],
  dotenv: ["python-dotenv"],
  fitz: ["pymupdf"],
  git: ["gitpython"],
  jose: ["python-jose"],
  jwt: ["pyjwt"],
  magic: ["python-magic"],
  MySQLdb: ["mysqlclient"],
  OpenSSL: ["pyopenssl"],
  PIL: ["pillow"],
  pkg_resources: ["setuptools"],
  pptx: ["python-pptx"],
  psycopg2: ["psycopg2", "psycopg2-binary"],
  pythonjsonlogger: ["python-json-logger"],
  serial: ["pyserial"],
  skimage: ["scikit-image"],
  sklearn: ["scikit-learn"],
  telegram: ["python-telegram-bot"],
  usb: ["pyusb"],
  whisper: ["openai-whisper"],
  yaml: ["pyyaml"],
  zmq: ["pyzmq"],
};

/** The package to list for an import, most likely one first. */
export function distributionsOf(topLevelModule: string): readonly string[] {
  return DISTRIBUTIONS[topLevelModule] ?? [normalizedName(topLevelModule)];
}

/** Whether a listed package is likely to bring the module: by its name, a known other name, or as a namespace's prefix. */
export function providesModule(distribution: string, topLevelModule: string): boolean {
  const module = normalizedName(topLevelModule);
  if (distributionsOf(topLevelModule).includes(distribution)) return true;
  return distribution === module || distribution.startsWith(`${module}-`) || distribution === `python-${module}`;
}

/** Top-level modules of CPython 3.10 to 3.14. */
const STANDARD_LIBRARY = `
__future__ __main__ _thread abc aifc annotationlib antigravity argparse array ast asynchat asyncio asyncore
atexit audioop base64 bdb binascii bisect builtins bz2 cProfile calendar cgi cgitb chunk cmath cmd code codecs
codeop collections colorsys compileall compression concurrent configparser contextlib contextvars copy copyreg
crypt csv ctypes curses dataclasses datetime dbm decimal difflib dis distutils doctest email encodings
ensurepip enum errno faulthandler fcntl filecmp fileinput fnmatch fractions ftplib functools gc genericpath
getopt getpass gettext glob graphlib grp gzip hashlib heapq hmac html http idlelib imaplib imghdr imp
importlib inspect io ipaddress itertools json keyword lib2to3 linecache locale logging lzma mailbox mailcap
marshal math mimetypes mmap modulefinder msilib msvcrt multiprocessing netrc nis nntplib nt ntpath nturl2path
numbers opcode operator optparse os ossaudiodev pathlib pdb pickle pickletools pipes pkgutil platform plistlib
poplib posix posixpath pprint profile pstats pty pwd py_compile pyclbr pydoc pydoc_data pyexpat queue quopri
random re readline reprlib resource rlcompleter runpy sched secrets select selectors shelve shlex shutil
signal site smtpd smtplib sndhdr socket socketserver spwd sqlite3 sre_compile sre_constants sre_parse ssl stat
statistics string stringprep struct subprocess sunau symtable sys sysconfig syslog tabnanny tarfile telnetlib
tempfile termios textwrap this threading time timeit tkinter token tokenize tomllib trace traceback
tracemalloc tty turtle turtledemo types typing unicodedata unittest urllib uu uuid venv warnings wave weakref
webbrowser winreg winsound wsgiref xdrlib xml xmlrpc zipapp zipfile zipimport zlib zoneinfo
`;

const standardLibrary = new Set(STANDARD_LIBRARY.split(/\s+/));

/** Of the public ones: what a file of the project must not be called. */
export function namesStandardModule(topLevelModule: string): boolean {
  return standardLibrary.has(topLevelModule) && !topLevelModule.startsWith("_");
}

export function isStandardLibrary(topLevelModule: string): boolean {
  return standardLibrary.has(topLevelModule) || topLevelModule.startsWith("_");
}
