/*
 * The configuration file: `key = value` lines, one [section] a device.
 *
 * A fault that is misspelt must not pass for its opposite without a word, so
 * every unknown key and value is named on stderr; of a choice, the first
 * alternative then counts.
 */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum kind { TEXT, INTEGER, DECIMAL, CHOICE };

struct key {
    const char *name;
    enum kind kind;
    size_t offset, size;            /* of the member of struct sv_section */
    const char *choices[5];
};

#define MEMBER(member) offsetof(struct sv_section, member), sizeof ((struct sv_section *)0)->member

static const struct key keys[] = {
    {"addr", TEXT, MEMBER(addr), {0}},
    {"gids", TEXT, MEMBER(gids), {0}},
    {"pci", TEXT, MEMBER(pci), {0}},
    {"inject", TEXT, MEMBER(port.inject), {0}},
    {"rate", INTEGER, MEMBER(port.rate_gbps), {0}},
    {"mtu", INTEGER, MEMBER(port.mtu), {0}},
    {"lid", INTEGER, MEMBER(port.lid), {0}},
    {"numa_node", INTEGER, MEMBER(port.numa_node), {0}},
    {"ack_timeout_ms", INTEGER, MEMBER(port.ack_timeout_ms), {0}},
    {"bandwidth", DECIMAL, MEMBER(port.bandwidth_mb), {0}},
    {"state", CHOICE, MEMBER(port.state), {"DOWN", "INIT", "ARMED", "ACTIVE"}},
    {"link_layer", CHOICE, MEMBER(port.infiniband), {"Ethernet", "InfiniBand"}},
    {"memlock", CHOICE, MEMBER(port.memlock_ignored), {"enforce", "ignore"}},
    {"reg_mr", CHOICE, MEMBER(port.reg_mr_fails), {"ok", "fail"}},
    {"blackhole", CHOICE, MEMBER(port.blackhole), {"no", "yes"}},
};

static const struct key device_nodes = {"device_nodes", CHOICE, 0, sizeof(int), {"real", "virtual"}};

static void complain(const char *section, const char *key, const char *value, const char *hint)
{
    fprintf(stderr, "softverbs: [%s] %s = %s: %s\n", section, key, value, hint);
}

static int parse_choice(const char *section, const struct key *key, const char *value)
{
    for (int i = 0; key->choices[i]; i++)
        if (!strcasecmp(value, key->choices[i]))
            return i;
    complain(section, key->name, value, "no such choice, the first one counts");
    return 0;
}

static int parse_integer(const char *section, const struct key *key, const char *value)
{
    char *end;
    long number = strtol(value, &end, 0);
    if (end == value || *end)
        complain(section, key->name, value, "not a whole number");
    return (int)number;
}

static double parse_decimal(const char *section, const struct key *key, const char *value)
{
    char *end;
    double number = strtod(value, &end);
    if (end == value || *end || number < 0) {
        complain(section, key->name, value, "not a number of at least 0");
        return 0;
    }
    return number;
}

static void set_member(struct sv_section *s, const struct key *key, const char *value)
{
    char *member = (char *)s + key->offset;
    int integer;
    double decimal;
    switch (key->kind) {
    case TEXT:
        snprintf(member, key->size, "%s", value);
        break;
    case INTEGER:
    case CHOICE:
        integer = key->kind == CHOICE ? parse_choice(s->name, key, value) : parse_integer(s->name, key, value);
        memcpy(member, &integer, sizeof integer);
        break;
    case DECIMAL:
        decimal = parse_decimal(s->name, key, value);
        memcpy(member, &decimal, sizeof decimal);
        break;
    }
}

static void set_key(struct sv_section *s, const char *name, const char *value)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(name, keys[i].name)) {
            set_member(s, &keys[i], value);
            return;
        }
    complain(s->name, name, value, "no such key");
}

static char *trim(char *text)
{
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = 0;
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

static void start_section(struct sv_section *s, const char *name, int index)
{
    enum { ACTIVE_CHOICE = 3 };
    *s = (struct sv_section){.addr = "auto"};
    s->port = (struct sv_port){.state = ACTIVE_CHOICE, .rate_gbps = 400, .mtu = 4096, .ack_timeout_ms = 10000};
    snprintf(s->name, sizeof s->name, "%s", name);
    snprintf(s->pci, sizeof s->pci, "5afe:%02x:00.0", (unsigned)(index + 1) & 0xff);
}

static void finish_section(struct sv_section *s, int index)
{
    s->port.state += IBV_PORT_DOWN;     /* from the place in the list of choices */
    sv_address_resolve(s->addr, &s->port);
    if (!s->gids[0])
        strcpy(s->gids, s->port.infiniband ? "ib:link" : "v1:link v2:link v1:addr v2:addr");
    sv_gids_parse(s->gids, &s->port, index);
    if (s->port.infiniband && !s->port.lid)
        s->port.lid = index + 1;
}

static void parse_line(char *line, struct sv_config *config)
{
    line[strcspn(line, "#\n")] = 0;
    char *text = trim(line), *equals = strchr(text, '='), *close = strchr(text, ']');
    if (text[0] == '[' && close && config->count < SV_MAX_DEVICES) {
        *close = 0;
        start_section(&config->sections[config->count], trim(text + 1), config->count);
        config->count++;
    } else if (equals) {
        *equals = 0;
        char *key = trim(text), *value = trim(equals + 1);
        if (config->count)
            set_key(&config->sections[config->count - 1], key, value);
        else if (!strcmp(key, device_nodes.name))
            config->virtual_device_nodes = parse_choice("", &device_nodes, value);
        else
            complain("", key, value, "no such key outside a section");
    } else if (text[0]) {
        complain("", text, "", "neither a [section] nor a key = value");
    }
}

bool sv_config_read(const char *path, struct sv_config *config)
{
    char line[640];
    FILE *file = fopen(path, "re");
    *config = (struct sv_config){.virtual_device_nodes = 1};
    if (!file) {
        fprintf(stderr, "softverbs: SOFTVERBS_CONFIG=%s: %s\n", path, strerror(errno));
        return false;
    }
    while (fgets(line, sizeof line, file))
        parse_line(line, config);
    fclose(file);
    for (int i = 0; i < config->count; i++)
        finish_section(&config->sections[i], i);
    return true;
}
