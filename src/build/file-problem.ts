import { existsSync } from "node:fs";
import { SvcError } from "../domain/errors.ts";

const REASONS: Readonly<Record<string, string>> = {
  EACCES: "permission denied",
  EPERM: "permission denied",
  EROFS: "the file system is read-only",
  ENOSPC: "the disk is full",
  EDQUOT: "the disk quota is used up",
  EFBIG: "no file may become that large here (ulimit -f)",
  ENOTDIR: "a part of its path is a file",
  // How Node says the same to a user who may not write beside that file.
  EEXIST: "a part of its path is a file",
  EISDIR: "it is a folder",
  EFTYPE: "it is no plain file",
  ELOOP: "its symbolic links lead in a circle",
  ENAMETOOLONG: "its name is too long",
  EMFILE: "too many files are open",
};

/** In words; undefined for what is not known as a trouble of the disk. */
export function diskProblem(error: unknown): string | undefined {
  return REASONS[(error as NodeJS.ErrnoException).code ?? ""];
}

/** The disk's own troubles are the user's to solve: they become a BUILD_FAILED with the path. Others stay as they are. */
export function fileProblem(error: unknown, { cacheDir, projectDir }: Record<"cacheDir" | "projectDir", string>) {
  if (error instanceof SvcError) return error;
  if (!existsSync(projectDir)) return projectGone(projectDir, error);
  const { code, path, message, syscall } = error as NodeJS.ErrnoException;
  const lost = code === "ENOENT" && path?.startsWith(`${projectDir}/`);
  // As /proc answers to every new folder.
  const noPlace = code === "ENOENT" && syscall === "mkdir" && "no folder can be made there";
  const reason = lost ? "it went away during the build" : noPlace || diskProblem(error);
  if (reason === undefined) return error;
  const above = path !== undefined && cacheDir.startsWith(`${path}/`);
  const cached = above || path?.startsWith(cacheDir);
  return new SvcError("BUILD_FAILED", `The build cannot use ${above ? cacheDir : (path ?? message)}: ${reason}.`, {
    help: cached
      ? "SVC_CACHE_DIR moves the build cache to another folder."
      : "Make it readable and writable for you, or free space, and build again.",
    cause: error,
  });
}

/** For what was going on in a project when its folder was moved or removed. */
export function projectGone(projectDir: string, cause?: unknown): SvcError {
  return new SvcError("BUILD_FAILED", `The project folder ${projectDir} does not exist any more.`, {
    help: "It was moved or removed meanwhile. Go to where it is now and run the command again.",
    cause,
  });
}
