# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How Sphinx builds the pages that antsibull-docs has written; build.sh calls both."""

from docutils import nodes

project = "plumbline.ssd"
copyright = "the plumbline.ssd authors"
html_title = "plumbline.ssd"

extensions = ["sphinx_antsibull_ext", "sphinx_copybutton"]
html_theme = "furo"
html_theme_options = {"light_css_variables": {"color-brand-primary": "#2a6fb0", "color-brand-content": "#2a6fb0"}}
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False

highlight_language = "YAML+Jinja"
pygments_style = "ansible"
pygments_dark_style = "monokai"
copybutton_prompt_text = "$ "
antsibull_ext_color_scheme = "none"  # site.css has the colours, in those of the theme
nitpicky = True

# Labels of Ansible's own documentation. Its index is not fetched, so that the site can be built without a network.
ANSIBLE = "https://docs.ansible.com/ansible/latest/"
ANSIBLE_PAGES = {
    "action_plugins": "plugins/action.html",
    "ansible_collections.ansible.posix.mount_module": "collections/ansible/posix/mount_module.html",
    "ansible_configuration_settings": "reference_appendices/config.html",
    "callback_plugins": "plugins/callback.html",
    "common_return_values": "reference_appendices/common_return_values.html",
}


def link_to_ansible(app, env, node, contnode):
    """A reference to a page of Ansible's own documentation; None where the target is not one of these."""
    page = ANSIBLE_PAGES.get(node.get("reftarget", ""))
    if page is None:
        return None
    return nodes.reference("", "", contnode, refuri=ANSIBLE + page, internal=False)


def drop_contents(app, doctree):
    """The theme shows the contents of a page beside it; the list in the page is for other readers of the same files."""
    for topic in list(doctree.findall(nodes.topic)):
        if "contents" in topic["classes"]:
            topic.parent.remove(topic)


def setup(app):
    app.connect("missing-reference", link_to_ansible)
    app.connect("doctree-read", drop_contents)
