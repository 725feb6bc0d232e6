/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "control.h"

#include "counters.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* One client at a time; one that says nothing for so long is in the way of the next. */
#define SILENCE_MS 5000

static int listener = -1;
static int stop_pipe[2] = {-1, -1};
static pthread_t thread;
static bool thread_runs;

struct answer {
  char text[8192];
};

static int refuse(struct complaint *complaint, const char *path, const char *what)
{
  snprintf(complaint->text, sizeof complaint->text, "control=%s: %s", path, what);
  return -1;
}

/* True if nobody listens there any more. */
static bool is_left_over(const struct sockaddr_un *address)
{
  struct stat status;
  if (lstat(address->sun_path, &status) != 0 || !S_ISSOCK(status.st_mode))
    return false;
  int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool dead = connect(probe, (const struct sockaddr *)address, sizeof *address) != 0 && errno == ECONNREFUSED;
  close(probe);
  return dead;
}

int control_open(const char *path, struct complaint *complaint)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path)
    return refuse(complaint, path, "longer than the path of a unix socket can be (107 bytes)");
  strcpy(address.sun_path, path);
  if (is_left_over(&address))
    unlink(path);
  listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 8) != 0)
    return refuse(complaint, path, strerror(errno));
  return pipe2(stop_pipe, O_CLOEXEC) == 0 ? 0 : refuse(complaint, path, strerror(errno));
}

static void answer_error(struct answer *answer, const char *text)
{
  size_t used = (size_t)snprintf(answer->text, sizeof answer->text, "{\"ok\": false, \"error\": \"");
  for (; *text != '\0' && used < sizeof answer->text - 8; text++) {
    if (*text == '"' || *text == '\\')
      answer->text[used++] = '\\';
    answer->text[used++] = (unsigned char)*text < ' ' ? ' ' : *text;
  }
  strcpy(answer->text + used, "\"}");
}

static void answer_object(struct answer *answer, const char *name, int (*write_json)(struct device *, char *, size_t),
                          struct device *device)
{
  size_t used = (size_t)snprintf(answer->text, sizeof answer->text, "{\"ok\": true, \"%s\": ", name);
  if (write_json(device, answer->text + used, sizeof answer->text - used - 2) != 0)
    answer_error(answer, "the answer is too long");
  else
    strcat(answer->text, "}");
}

static int all_counters(struct device *device, char *text, size_t size)
{
  (void)device;
  return counters_json(text, size);
}

/* Not for a device whose backing file failed: it counted what never reached the medium. */
static void answer_counters(struct answer *answer, struct device *device)
{
  char text[128];
  const char *failure = device_failure(device);
  if (failure == NULL) {
    answer_object(answer, "counters", all_counters, device);
    return;
  }
  snprintf(text, sizeof text, "the backing file failed: %s", failure);
  answer_error(answer, text);
}

static void answer_smart(struct answer *answer, struct device *device)
{
  if (device_has_ftl(device))
    answer_object(answer, "smart", device_smart_json, device);
  else
    answer_error(answer, "no flash translation layer: the drive was started without op=");
}

static void answer_set(struct answer *answer, struct device *device, const char *key, const char *value)
{
  struct complaint complaint;
  if (key == NULL || value == NULL)
    answer_error(answer, "usage: set KEY VALUE");
  else if (device_set(device, key, value, &complaint) != 0)
    answer_error(answer, complaint.text);
  else
    answer_object(answer, "settings", device_settings_json, device);
}

static void answer_copy(struct answer *answer, struct device *device, const char *path)
{
  struct complaint complaint;
  struct image image;
  if (path == NULL)
    answer_error(answer, "usage: copy PATH");
  else if (device_copy(device, path, &image, &complaint) != 0)
    answer_error(answer, complaint.text);
  else
    snprintf(answer->text, sizeof answer->text, "{\"ok\": true, \"bytes\": %" PRIu64 ", \"held_ns\": %" PRIu64 "}",
             image.bytes, image.held_ns);
}

static void obey(struct device *device, char *line, struct answer *answer)
{
  char *rest;
  const char *command = strtok_r(line, " \t\r", &rest);

  strcpy(answer->text, "{\"ok\": true}");
  if (command == NULL) {
    answer_error(answer, "empty line");
  } else if (strcmp(command, "counters") == 0) {
    answer_counters(answer, device);
  } else if (strcmp(command, "reset") == 0) {
    counters_reset();
  } else if (strcmp(command, "settings") == 0) {
    answer_object(answer, "settings", device_settings_json, device);
  } else if (strcmp(command, "smart") == 0) {
    answer_smart(answer, device);
  } else if (strcmp(command, "copy") == 0) {
    answer_copy(answer, device, strtok_r(NULL, "\r", &rest)); /* a path may have blanks */
  } else if (strcmp(command, "power_cut") == 0) {
    snprintf(answer->text, sizeof answer->text, "{\"ok\": true, \"cache_lost_bytes\": %" PRIu64 "}", device_power_cut(device));
  } else if (strcmp(command, "power_off") == 0) {
    device_power_off(device);
  } else if (strcmp(command, "power_on") == 0) {
    device_power_on(device);
  } else if (strcmp(command, "set") == 0) {
    const char *key = strtok_r(NULL, " \t\r", &rest);
    answer_set(answer, device, key, strtok_r(NULL, " \t\r", &rest));
  } else {
    answer_error(answer, "unknown command; there are: counters, reset, smart, settings, set, copy, power_cut, power_off, power_on");
  }
}

/* True if there is something to read or to accept; false after the silence, or when it is time to stop. */
static bool wait_for_input(int socket, int timeout_ms)
{
  struct pollfd wanted[] = {{.fd = socket, .events = POLLIN}, {.fd = stop_pipe[0], .events = POLLIN}};
  return poll(wanted, 2, timeout_ms) > 0 && wanted[1].revents == 0;
}

static bool say(int client, struct answer *answer)
{
  size_t length = strlen(answer->text);
  answer->text[length++] = '\n';
  for (size_t sent = 0; sent < length;) {
    ssize_t result = send(client, answer->text + sent, length - sent, MSG_NOSIGNAL);
    if (result <= 0)
      return false;
    sent += (size_t)result;
  }
  return true;
}

static void talk(struct device *device, int client)
{
  char line[512];
  size_t used = 0;
  struct answer answer;

  while (used < sizeof line && wait_for_input(client, SILENCE_MS)) {
    ssize_t got = recv(client, line + used, sizeof line - used, 0);
    if (got <= 0)
      return;
    used += (size_t)got;
    for (char *end; (end = memchr(line, '\n', used)) != NULL;) {
      size_t taken = (size_t)(end - line) + 1;
      *end = '\0';
      obey(device, line, &answer);
      if (!say(client, &answer))
        return;
      used -= taken;
      memmove(line, line + taken, used);
    }
  }
}

static void *serve(void *device)
{
  for (;;) {
    if (!wait_for_input(listener, -1))
      return NULL;
    int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0)
      continue;
    talk(device, client);
    close(client);
  }
}

int control_start(struct device *device)
{
  int error = pthread_create(&thread, NULL, serve, device);
  thread_runs = error == 0;
  return error;
}

void control_close(const char *path)
{
  if (thread_runs && write(stop_pipe[1], "", 1) == 1)
    pthread_join(thread, NULL);
  thread_runs = false;
  close(listener);
  unlink(path);
}
