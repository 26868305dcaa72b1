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
