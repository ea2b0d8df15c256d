"use strict";
for (const element of document.querySelectorAll(".plot")) {
  cotuneFigures.draw(element, JSON.parse(document.getElementById(element.dataset.figure).textContent));
}
document.documentElement.dataset.drawn = "true";
