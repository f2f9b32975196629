"""A window that shows frames and reads keys; the only part of the package that needs a display."""

from __future__ import annotations

import numpy as np


class Window:
    """A window of some size, opened at once.

    Args:
        shape: Height and width in pixels.
        title: What stands above it.
    """

    _open = 0

    def __init__(self, shape: tuple[int, int], title: str = "neophyte") -> None:
        try:
            import pygame
        except ImportError:
            raise ImportError("pygame is not installed: pip install 'neophyte[play]'", name="pygame") from None
        self._pygame = pygame
        try:
            pygame.display.init()
            self._screen = pygame.display.set_mode((shape[1], shape[0]))
        except pygame.error as error:
            raise ValueError(f"there is no display ({error}); allowed: a screen, or SDL_VIDEODRIVER=dummy") from None
        pygame.display.set_caption(title)
        self._clock = pygame.time.Clock()
        Window._open += 1

    def show(self, frame: np.ndarray, fps: int = 0) -> None:
        """Show a frame, uint8 (height, width, 3), scaled to the window; with `fps`, no more often than that."""
        pygame = self._pygame
        surface = pygame.surfarray.make_surface(frame.transpose(1, 0, 2))
        pygame.transform.scale(surface, self._screen.get_size(), self._screen)
        pygame.display.flip()
        pygame.event.pump()
        if fps:
            self._clock.tick(fps)

    def close(self) -> None:
        """Close the window. (There is one screen: it goes with the last.)"""
        Window._open -= 1
        if not Window._open:
            self._pygame.display.quit()
