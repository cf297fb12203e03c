/** What a reviewer has typed and not sent yet; the tab keeps it, for this case and this person alone. */

/** @param {string} name @param {HTMLFormElement} form */
export function keep(name, form) {
  const fields = [...new FormData(form)].filter(([, value]) => typeof value === "string" && value);
  try {
    sessionStorage.setItem(name, JSON.stringify(fields));
  } catch {
    // storage is refused: it is typed again if the page is left
  }
}

/** @param {string} name */
export function forget(name) {
  try {
    sessionStorage.removeItem(name);
  } catch {
    // nothing was kept
  }
}

/** Fill a form that nobody has filled. @param {string} name @param {HTMLFormElement} form */
export function restore(name, form) {
  for (const [field, value] of kept(name)) {
    for (const one of form.querySelectorAll(`[name="${CSS.escape(field)}"]`)) {
      if (one instanceof HTMLInputElement && ["radio", "checkbox"].includes(one.type)) one.checked ||= one.value === value;
      else if (one instanceof HTMLSelectElement && [...one.options].some((option) => option.value === value)) one.value = value;
      else if (one instanceof HTMLTextAreaElement || one instanceof HTMLInputElement) one.value = value;
    }
  }
}

/** @param {string} name @returns {[string, string][]} */
function kept(name) {
  try {
    return JSON.parse(sessionStorage.getItem(name) ?? "[]");
  } catch {
    return [];
  }
}

const SAID = "said";

/** Go to another page, which says this once it is there. @param {string} address @param {string} text */
export function leave(address, text) {
  try {
    sessionStorage.setItem(SAID, text);
  } catch {
    // it is not said, then
  }
  location.assign(address);
}

/** Return what the last page left to be said. @returns {string} */
export function arrive() {
  try {
    return sessionStorage.getItem(SAID) ?? "";
  } catch {
    return "";
  } finally {
    forget(SAID);
  }
}
