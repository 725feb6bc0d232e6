/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A Python interpreter that leaves one byte per start in /run/plumbline-execs.
 * Named as ansible_python_interpreter it counts remote module executions where
 * they happen; a callback on the controller cannot see them all.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    (void)argc;
    mode_t old = umask(0);
    int fd = open("/run/plumbline-execs", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    umask(old);
    if (fd >= 0) {
        if (write(fd, "x", 1) != 1) {
            /* a lost count must not fail the module */
        }
        close(fd);
    }
    argv[0] = "/usr/bin/python3";
    execv(argv[0], argv);
    return 127;
}
